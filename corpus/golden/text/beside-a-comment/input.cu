int a = 1;  // one
