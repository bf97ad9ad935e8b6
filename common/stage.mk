# Included by the Makefile of each stage: the rules live once, in common/rules.mk.
STAGE := $(notdir $(CURDIR))
.PHONY: all check bench mutants handout
all:
	@$(MAKE) --no-print-directory -C .. STAGE=$(STAGE)
check bench mutants handout:
	@$(MAKE) --no-print-directory -C .. $@ STAGE=$(STAGE)
