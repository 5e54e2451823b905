"""The experiments of the papers on moving state, repeated with NEXMark's queries: one module and one command each.

`experiment` is what all of them are made of, `stage` runs a query and moves its bins, `spikes` computes the figures, `sections` writes the page.
"""
