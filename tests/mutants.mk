# Seeded bugs: `make mutants` (or STAGE=...) builds each and demands that the stage's tests kill it.
.PHONY: mutants check-handout
mutants: $(foreach s,$(BUILT),$(BUILD)/tests/check_$(s))
	@for s in $(BUILT); do sh tests/mutants.sh $$s || bad=1; done; [ -z "$$bad" ]

handout:
	@sh common/handout.sh '$(STAGE)' '$(OUT)'

check-handout:
	@STAGE='$(BUILT)' sh tests/handout.sh
