# `make plot`: speed and memory of every step against sequence length, as pictures in build/plots.
plot: $(PROGRAMS)
	@sh common/plot.sh $(BUILD)/plots $(PROGRAMS)
