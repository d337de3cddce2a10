"""What `import torch` calls, through the entry point group `torch.backends`."""

from __future__ import annotations


def autoload() -> None:
    """Serve `neuron` unless a real torch_neuronx is installed. Cheap: no build, no compiler, no jaxlib."""
    from neuron_lab.emulator._attach import attach

    attach()
