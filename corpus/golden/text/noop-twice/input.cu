f(x);
f(x);
