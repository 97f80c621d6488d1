set(FLAGS "-O3)
