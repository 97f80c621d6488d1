int a = 2;  // two
