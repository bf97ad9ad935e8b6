# Included by the Makefile of each stage: the rules live once, in common/rules.mk.
STAGE := $(notdir $(CURDIR))
.PHONY: all check bench mutants handout help
all:
	@$(MAKE) --no-print-directory -C .. STAGE=$(STAGE)
check bench mutants handout help:
	@$(MAKE) --no-print-directory -C .. $@ STAGE=$(STAGE)
