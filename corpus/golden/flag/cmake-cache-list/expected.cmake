set(ARCHS "9.0a;10.0a;12.0a" CACHE STRING "what to build for; a list")
