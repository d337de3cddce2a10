"""The surface programs see, with the names and texts of TorchNeuron: `torch.neuron` and `torch_neuronx`."""
