// été
int a = 1;
