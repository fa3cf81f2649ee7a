"""A training job whose layers are summed while others compute, for the figures of one job.

An iteration computes all layers forward, then backward from the last to the first. The gradients of
a layer are ready once its backward step is done; sums are served in that order, one at a time. The
next iteration's forward step of a layer waits for the layer's sum. Layers and their operations come
from the models' published shapes, the time of a whole iteration from published measurements of an
RTX 2080 Ti (32 images, float32), divided by the layers' operations; backward is twice forward.
"""

BATCH = 32
# Milliseconds per iteration.
COMPUTE_MS = {"VGG16": 191, "ResNet50": 118, "ResNet101": 187, "ResNet152": 283, "AlexNet": 8.7}


def convolution(side, inputs, outputs, kernel):
    weights = inputs * outputs * kernel * kernel
    return weights, weights * side * side


def vgg16():
    layers, side, inputs = [], 224, 3
    for repeats, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(repeats):
            layers.append(convolution(side, inputs, outputs, 3))
            inputs = outputs
        side //= 2
    return layers + [(n, n) for n in (25088 * 4096, 4096 * 4096, 4096 * 1000)]


def alexnet():
    layers = [convolution(55, 3, 64, 11), convolution(27, 64, 192, 5)]
    layers += [convolution(13, 192, 384, 3), convolution(13, 384, 256, 3)]
    layers += [convolution(13, 256, 256, 3)]
    return layers + [(n, n) for n in (9216 * 4096, 4096 * 4096, 4096 * 1000)]


def resnet(blocks):
    layers, inputs, side = [convolution(112, 3, 64, 7)], 64, 56
    for stage, repeats in enumerate(blocks):
        width = 64 << stage
        for block in range(repeats):
            if block == 0:
                side = 56 >> stage
                layers.append(convolution(side, inputs, 4 * width, 1))  # of the shortcut
            layers += [convolution(side, inputs, width, 1), convolution(side, width, width, 3)]
            layers.append(convolution(side, width, 4 * width, 1))
            inputs = 4 * width
    return [*layers, (2048 * 1000, 2048 * 1000)]


MODELS = {
    "AlexNet": alexnet(),
    "VGG16": vgg16(),
    "ResNet50": resnet((3, 4, 6, 3)),
    "ResNet101": resnet((3, 4, 23, 3)),
    "ResNet152": resnet((3, 8, 36, 3)),
}


def iteration_ms(layers, compute_ms, gbit, rounds=4):
    """The time of an iteration in the steady state, with sums at `gbit`."""
    operations = sum(work for _, work in layers)
    forward = [compute_ms / 3 * work / operations for _, work in layers]
    summed = [0.0] * len(layers)  # when the sum of a layer is complete
    now = ends = 0.0
    for _ in range(rounds):
        begin = now
        for layer, time in enumerate(forward):
            now = max(now, summed[layer]) + time
        link = now
        for layer in reversed(range(len(layers))):
            now += 2 * forward[layer]
            link = max(link, now) + layers[layer][0] * 32 / gbit / 1e6
            summed[layer] = link
        ends = now - begin
    return ends


def images_per_second(name, gbit):
    return BATCH / iteration_ms(MODELS[name], COMPUTE_MS[name], gbit) * 1000
