"""A computed gate, or shift, applied before planes are enlarged instead of after it.

    Resize(x) · g  =  Resize(x · g)          Resize(x) + g  =  Resize(x + g)

g has one number a channel and sample, as attention over channels computes it. A pixel of Resize
(nearest or linear) is a mean of pixels of x with weights that sum to 1, the same for all channels.
The gate then touches 1/scale² of the elements. Constants go by `constant_before_resize`.

It must not fire where the gate varies over positions or makes channels of one, with cubic
interpolation or a value for positions outside, where batch or channels are resized too, where
something else reads the enlarged planes, or where planes do not grow.
ONNX Runtime does nothing of it. It is a choice, since it may lose: in the runtime's blocked layout
(x86) a convolution and the linear Resize behind it stay in it, and a product between them ends it.
Measured at scale 2: 1.2-2.1 before a convolution, 1.0-1.2 before nothing, 0.5 where a convolution
stood directly before a linear Resize and nothing behind.
"""

from edgeopt.transforms.rewrite._operand_before_resize import operand_first
from edgeopt.transforms.rules.terms import Computed
from edgeopt.transforms.rules.transform import RuleTransform

PLUGIN = RuleTransform(operand_first.narrowed("gate_before_resize", g=Computed))
