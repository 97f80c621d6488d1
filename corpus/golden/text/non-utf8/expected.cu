// été
int a = 2;
