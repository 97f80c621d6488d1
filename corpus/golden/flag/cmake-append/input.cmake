set(FLAGS [[-DA=[1]]] #[[ a
comment ) ]] "-DB")
list(APPEND FLAGS
  "-gencode=arch=compute_100a,code=sm_100a"
)
list(REMOVE_ITEM FLAGS "-DB")
