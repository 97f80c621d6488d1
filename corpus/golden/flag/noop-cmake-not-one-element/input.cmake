set(FLAGS -O3)
