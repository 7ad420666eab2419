"""Makers of the labelled data behind the manifest's models.

One file a data set: `VERSION` (raised whenever the samples change) and
`make(model, seed, counts, assets) -> dict` of the arrays that go into the npz. Numpy and Pillow
only, so that data can be made wherever edgeopt installs.
"""
