"""Can the tests fail? Change one place of the code at a time, and see whether a test notices.

A mutant is one small change: a comparison turned round, a condition negated, a statement removed, a constant one higher. The tests
that reach its line are run on it; one that none of them notices is a survivor: either a test is missing, or the change makes no
difference that anyone can see. Those are named, with the reason, in `equivalent.tsv` and not counted.

    make mutants                                            # 500 of all, drawn with a new seed: some hours
    python -m tests.mutation --seed 7 --count 60 --only frontier/sqlite
    python -m tests.mutation --mutant 'src/shoal/model/url.py:61:statement removed'
"""
