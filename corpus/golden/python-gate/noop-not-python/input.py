def gen(:
