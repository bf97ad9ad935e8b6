# Seeded bugs: `make mutants` (or STAGE=...) builds each and demands that the stage's tests kill it.
#   MUTANT=text   only those with text in their line
# Without python3 only the bugs of tests/mutants/*.mut are tried. `make check` tries those that are marked sample, unless
# nvcc, or a sanitizer, would build them too.
MUTANTS_SAMPLED := $(if $(filter 0,$(HAVE_GPU)),$(if $(filter build,$(BUILD)),$(BUILT)))
export FA_MUTANTS = $(foreach s,$(MUTANTS_SAMPLED),$(if $(wildcard tests/mutants/$(s).mut),$(s)))
CHECK_SCRIPTS += $(if $(FA_MUTANTS),tests/mutants_sample.sh)

.PHONY: mutants check-handout
mutants: $(foreach s,$(BUILT),$(BUILD)/tests/check_$(s))
	@if $(PYTHON) -c '' 2>/dev/null; then \
		for s in $(BUILT); do $(PYTHON) -B tests/mutants.py $$s --only '$(MUTANT)' || bad=1; done; \
	else \
		echo 'mutants: no $(PYTHON), so only the bugs of tests/mutants/*.mut are tried'; \
		for s in $(BUILT); do sh tests/mutants.sh $$s '$(MUTANT)' || bad=1; done; \
	fi; [ -z "$$bad" ]

handout:
	@sh common/handout.sh '$(STAGE)' '$(OUT)'

check-handout:
	@STAGE='$(BUILT)' sh tests/handout.sh
