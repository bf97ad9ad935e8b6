# `make bench-peers`: every step that this machine runs, beside PyTorch, in one process (needs only PyTorch).
#   PYTHON=python3   the interpreter that has PyTorch
#   PEERS="..."      options of tests/peers/bench_peers.py, for example PEERS="--shape 64,16,1024,64"
PYTHON ?= python3

.PHONY: bench-peers
bench-peers:
	@$(PYTHON) -c 'import torch' 2>/dev/null || { \
		echo "bench-peers needs PyTorch, and $(PYTHON) has none: $(PYTHON) -m pip install torch"; exit 3; }
	@$(MAKE) --no-print-directory all
	@$(PYTHON) -B tests/peers/bench_peers.py --build $(BUILD) $(PEERS)
