"""Which rails of an INA3221 add up to what, by label. Rails overlap: the sum of all is wrong.

Sources: NVIDIA's device trees (tegra194-p2888, tegra234-p3767, tegra234-p3701) and the issues 51,
344 and 900 of rbonghi/jetson_stats. AGX Orin and Thor have no rail of the whole module there.
"""

_TOTALS = (
    (("VDD_IN",), "module"),
    (("POM_5V_IN",), "module"),
    (("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"), "module"),
    # VDDQ_VDD2_1V8AO is left out: as far as is known VIN_SYS_5V0 feeds it.
    (("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"), "soc-rails (partial)"),
    (("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"), "soc-rails (partial)"),
)
STEP_V = 40e-6
"""One step of the converter over the shunt."""


def total(labels):
    """The labels that make the total, and the scope of their sum; empty for unknown rails."""
    for wanted, scope in _TOTALS:
        if set(wanted) <= set(labels):
            return list(wanted), scope
    return [], ""


def unknown(labels):
    """Why rails of an unknown board are not added up."""
    return "it is not known which of these rails make a total: " + ", ".join(labels)
