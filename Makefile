# Two commands do everything: `make demo` (no GPU, no nvcc) and `make check`. `make help` lists the rest.
include common/rules.mk
