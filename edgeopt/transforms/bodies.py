"""Transforms inside the bodies of If, Loop and Scan.

A transform knows one graph: `model.graph`. Here it is asked about the main graph and then about
each body as a model of its own, with the same code; a site says by the name of its value which
graph it lies in, since names are unique after normalisation. What follows from data stays
outside: values inside a body cannot be observed (a branch may not run, a loop runs many times), so
static quantization, pruning and repair act on the main graph alone.
"""

import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.errors import EdgeOptError, PluginFaultWarning
from edgeopt.graph.bodies import parents, view
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection, ShelfName, Transform

_ENTERING = frozenset({"rewrite", "fuse", "quantize"})


def enters(family: ShelfName, transform: Transform) -> bool:
    """Whether a transform may act inside bodies.

    One that must not although its shelf may has an attribute `main_graph_only`: it is about the
    model's inputs, or its site is `*`, which does not say which graph it means.
    """
    kept_out = transform.needs_data or transform.whole_model
    return family in _ENTERING and not (kept_out or getattr(transform, "main_graph_only", False))


def sites_of(
    family: ShelfName,
    transform: Transform,
    model: ir.Model,
    offer: Offer,
    *,
    bodies: Iterable[ir.Graph] | None = None,
) -> Iterator[Action]:
    """Every action of a transform on the main graph, then on the bodies that it may enter.

    Args:
        family: The transform's shelf.
        transform: Which.
        model: The whole model.
        offer: Decides which sites exist.
        bodies: Of the model, outer ones first, where they are known: looking for them takes as
            long as many transforms do.

    Warns:
        PluginFaultWarning: The transform failed on this model, and has no more sites on it.
    """
    try:
        yield from transform.sites(model, offer)
        if enters(family, transform):
            for body in parents(model) if bodies is None else bodies:
                yield from transform.sites(view(model, body), offer)
    except EdgeOptError:
        raise
    except Exception as error:  # a plug-in may raise anything, and one must not end a study
        _warn(f"looking for sites of the shelf {family}", error)


def apply_at(
    family: ShelfName, transform: Transform, editor: Editor, action: Action, evidence: Evidence
) -> Action | Rejection:
    """Apply an action in the graph that makes its site's value; the caller undoes a rejected one.

    A rule that would reach across the border of a body so that something reads what it does not
    see is rejected, and so is one that fails.

    Warns:
        PluginFaultWarning: It failed.
    """
    try:
        return _applied(family, transform, editor, action, evidence)
    except EdgeOptError:
        raise
    except Exception as error:  # as above
        _warn(action.transform, error)
        return Rejection(reason=f"it failed with {type(error).__name__}: {error}")


def _warn(what: str, error: Exception) -> None:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    places = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    warnings.warn(
        f"{what} failed and was left out there, a defect that should be reported: "
        f"{type(error).__name__}: {error} (at {places})",
        PluginFaultWarning,
        stacklevel=3,
    )


def _applied(
    family: ShelfName, transform: Transform, editor: Editor, action: Action, evidence: Evidence
) -> Action | Rejection:
    if not editor.bodies:
        return transform.apply(editor, action, evidence)
    found = editor.places.maker(action.site) if enters(family, transform) else None
    inner = editor if found is None else editor.inside(found)
    made = transform.apply(inner, action, evidence)
    if isinstance(made, Rejection):
        return made
    lost = editor.places.out_of_sight()
    if lost is not None:
        return Rejection(reason=f"it would carry {lost!r} across the border of a body")
    return made
