set(ARCHS "9.0a")
if(X)
  set(ARCHS "9.0a;8.9")
endif()
