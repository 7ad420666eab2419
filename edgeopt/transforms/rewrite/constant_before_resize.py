"""A number for every channel applied before planes are enlarged instead of after it.

    Resize(x) · c  =  Resize(x · c)          Resize(x) + c  =  Resize(x + c)

A pixel of Resize (nearest or linear) is a mean of pixels of x with weights that sum to 1, the same
for all channels. The constant then touches 1/scale² of the elements, and stands where it folds
into a convolution before it. What is computed goes by `gate_before_resize`.

It must not fire where the constant varies over positions or makes channels of one, with cubic
interpolation or a value for positions outside, where batch or channels are resized too, where
something else reads the enlarged planes, or where planes do not grow.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rewrite._operand_before_resize import operand_first
from edgeopt.transforms.rules.terms import Const
from edgeopt.transforms.rules.transform import RuleTransform

PLUGIN = RuleTransform(operand_first.narrowed("constant_before_resize", g=Const))
