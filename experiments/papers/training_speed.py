"""The in-network paper's figures of one job: some layers compute while others are summed.

An iteration computes all layers forward, then backward from the last to the first. The gradients of
a layer are ready once its backward step is done; sums are served in that order, one at a time. The
next iteration's forward step of a layer waits for the layer's sum. Layers and their operations come
from the models' published shapes, the time of a whole iteration from published measurements of an
RTX 2080 Ti (32 images, float32), divided by the layers' operations; backward is twice forward.
"""

from experiments.papers.entry import Check, Entry, Outcome, State
from experiments.papers.static_pool import Pool
from experiments.papers.static_pool import play as play_pool
from experiments.papers.sweep import HOSTS
from experiments.report import plt
from experiments.sharing.contest import play_all

BATCH = 32
WORKERS = 8
# Milliseconds per iteration.
COMPUTE_MS = {"VGG16": 191, "ResNet50": 118, "ResNet101": 187, "ResNet152": 283, "AlexNet": 8.7}
LINE_GBIT = 100


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
    summed = [0.0] * len(layers)  # when the sum of a layer is there
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


def systems(size):
    """{system: Gbit/s of sums}, each with what it is."""
    contest = {
        "jobs": 1,
        "workers": WORKERS,
        "aggregators": 1024,
        "window": 256,
        "operations": size.of(12, 40),
    }
    ours, large = play_all([contest, {**contest, "values": 350}])
    pool = play_pool(Pool(workers=WORKERS, slots=256, chunks=size.of(4000, 20000)))
    paper_frames = play_pool(
        Pool(workers=WORKERS, values=62, packet_bytes=306, chunks=size.of(4000, 20000))
    )
    ring = LINE_GBIT / (2 * (WORKERS - 1) / WORKERS)
    return {
        "ATP, 62 values": sum(ours["goodput"]),
        "ATP, 350 values": sum(large["goodput"]),
        "static pool, 32 values": pool.gbit,
        "static pool, 62 values": paper_frames.gbit,
        "ring or N servers, bound": ring,
        "one server, bound": LINE_GBIT / WORKERS,
    }


def figure_8(size):
    gbit = systems(size)
    rows = [
        {
            "model": model,
            "system": system,
            "sums_gbit": rate,
            "images_per_s": images_per_second(model, rate),
        }
        for model in MODELS
        for system, rate in gbit.items()
    ]
    at = {(row["model"], row["system"]): row["images_per_s"] for row in rows}

    def gain(system, ours="ATP, 62 values"):
        return max(at[model, ours] / at[model, system] for model in MODELS)

    pool, one, ring = (
        gain("static pool, 32 values"),
        gain("one server, bound"),
        gain("ring or N servers, bound"),
    )
    large = gain("ring or N servers, bound", "ATP, 350 values")
    figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
    for index, system in enumerate(gbit):
        axes.bar(
            [p + 0.14 * index for p in range(len(MODELS))],
            [at[m, system] / at[m, "ATP, 62 values"] for m in MODELS],
            0.14,
            label=system,
        )
    for index, (paper, text) in enumerate(
        ((1 / 1.5, "SwitchML"), (1 / 1.24, "Horovod, RDMA"), (1 / 8.7, "one server, TCP"))
    ):
        axes.axhline(
            paper,
            color="black",
            lw=0.8,
            ls=("--", ":", "-.")[index],
            label=f"paper, {text}: smallest of its models",
        )
    axes.set_xticks([p + 0.35 for p in range(len(MODELS))], list(MODELS))
    axes.set(ylabel="images per second, relative to ATP", ylim=(0, None))
    axes.legend(fontsize=7, ncols=2)
    vgg, resnet50 = (
        at[m, "ATP, 62 values"] / at[m, "one server, bound"] for m in ("VGG16", "ResNet50")
    )
    return Outcome(
        f"ATP is up to {pool:.2f} times as fast as a static pool with 32 values per packet, "
        f"{one:.2f} times as fast as one server can be, and {ring:.2f} times as fast as a ring at "
        "full rate can be. With 350 values per packet it is up to "
        f"{large:.2f} times as fast as that ring. "
        "Sums, in Gbit/s: " + "; ".join(f"{name}: {rate:.1f}" for name, rate in gbit.items()) + ".",
        rows,
        "none: the run is deterministic, since nothing is lost and no collision matters",
        [
            Check("ATP over the static pool of 32 values, best model", pool, 1.1, 1.7),
            Check("ATP over one server's bound, best model", one, 2.0, 8),
            Check("ATP with 350 values over the ring's bound, best model", large, 1.0, 2),
            Check("gain over one server, VGG16 over ResNet50", vgg / resnet50, 1.1, 8),
        ],
        figure,
    )


def time_ratios(size, models, papers):
    """Time to accuracy relative to N servers: equal epochs, so that of iterations."""
    gbit = systems(size)
    rows = []
    for model, paper in zip(models, papers, strict=True):
        ours = {
            ours: images_per_second(model, gbit[ours])
            / images_per_second(model, gbit["ring or N servers, bound"])
            for ours in ("ATP, 62 values", "ATP, 350 values")
        }
        rows.append({"model": model, "paper": paper, **ours})
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for index, name in enumerate(("paper", "ATP, 62 values", "ATP, 350 values")):
        axes.bar(
            [p + 0.25 * index for p in range(len(rows))], [r[name] for r in rows], 0.25, label=name
        )
    axes.axhline(1, color="black", lw=0.8)
    axes.set_xticks([p + 0.25 for p in range(len(rows))], models)
    axes.set_ylabel("speed relative to N servers")
    axes.legend(fontsize=8)
    return rows, figure


def figure_18(size):
    models = ["ResNet101", "AlexNet"]
    rows, figure = time_ratios(size, models, [1.01, 2.39])
    resnet, alex = rows
    return Outcome(
        "Speed relative to the bound of N servers at full rate: "
        + "; ".join(
            f"{r['model']} {r['ATP, 62 values']:.2f}, with 350 values per packet "
            f"{r['ATP, 350 values']:.2f}"
            for r in rows
        )
        + ".",
        rows,
        "none: the run is deterministic",
        [
            Check(
                "ResNet101, which computes: 350 values over N servers",
                resnet["ATP, 350 values"],
                0.97,
                1.1,
            ),
            Check(
                "AlexNet over ResNet101, 350 values",
                alex["ATP, 350 values"] / resnet["ATP, 350 values"],
                1.05,
                2.5,
            ),
        ],
        figure,
    )


def figure_3(size):
    """One worker and one server, at a thousandth of VGG16."""
    compute, interval = 191, 20
    contest = {
        "jobs": 1,
        "workers": 1,
        "aggregators": 256,
        "window": 128,
        "fragments": 2232,
        "operations": size.of(24, 90),
        "compute": compute,
        "sample": interval,
    }
    rows, idle = [], []
    results = play_all([{**contest, "seed": seed} for seed in size.seeds])
    for seed, result in zip(size.seeds, results, strict=True):
        mine = [{"seed": seed, "us": us, "fragments": n} for us, n, *_ in result["series"][1:-1]]
        rows += mine
        idle.append(sum(1 for r in mine if r["fragments"] == 0) / len(mine))
    figure, axes = plt.subplots(figsize=(6.4, 3), layout="constrained")
    first = [r for r in rows if r["seed"] == 1][:75]
    axes.step(
        [r["us"] / 1000 for r in first], [r["fragments"] * 62 * 32 / interval / 1000 for r in first]
    )
    axes.set(xlabel="ms, at 1/1000 of the model", ylabel="Gbit/s of sums")
    mean = sum(idle) / len(idle)
    return Outcome(
        f"The link is idle for {mean:.0%} of the time, and sums at full rate for the rest.",
        rows,
        f"{len(idle)} seeds, {min(idle):.0%} to {max(idle):.0%}",
        [Check("share of the time without sums", mean, 0.4, 0.8)],
        figure,
    )


ENTRIES = [
    Entry(
        "3",
        "Fig. 3, §2.2: phases of communication",
        "VGG16 with one worker and one server alternates between sending and pausing. The paper "
        "shows this as a picture.",
        State.SIMULATED,
        "Nothing overlaps in our run, so the pauses are the whole compute time.",
        HOSTS + ". One worker sums 1/1000 of VGG16 and pauses for 95 to 286 µs between its sums.",
        "yes",
        figure_3,
    ),
    Entry(
        "8",
        "Fig. 8, §5.2.1: one training job against other systems",
        "Eight workers and one server train seven models on ImageNet. Over RDMA, ATP is up to 1.5"
        " times as fast as BytePS with N servers and 1.24 times as fast as Horovod. Over TCP, it "
        "is up to 2.5 times as fast as BytePS with N servers, 8.7 times as fast as BytePS with "
        "one, and 4.2 times as fast as Horovod. It is up to 1.5 times as fast as SwitchML. VGG "
        "gains more than ResNet.",
        State.SIMULATED,
        "For the systems over RDMA we take bounds at full rate, which the paper's measurements "
        "were far from. We leave out those over TCP, because what they cost their hosts is not "
        "published, and VGG11 and VGG19, because their compute times are not. Our packet of 62 "
        "values has 362 bytes, the paper's has 306. The paper gives no batch size, so ours is a "
        "guess.",
        HOSTS + " and the static pool (experiments/papers/static_pool.py). The sums of "
        "layers overlap with computing (experiments/papers/training_speed.py), with 32 images per "
        "worker.",
        "against SwitchML and one server yes; against a ring at full rate only with larger packets",
        figure_8,
    ),
    Entry(
        "18",
        "Fig. 18, §D.3: time to accuracy of further models",
        "With eight workers, ResNet101 reaches its target accuracy 1.01 times, VGG19 1.2 times "
        "and AlexNet 2.39 times as fast as with BytePS and N servers over RDMA.",
        State.SIMULATED,
        "Against N servers at full rate, 62 values per packet lose and 350 win. The paper's N "
        "servers were slower than that bound. VGG19's compute time is not published. The epochs "
        "are equal (Fig. 11), so times compare as iterations do.",
        "as for Fig. 8",
        "only with larger packets, and less than in the paper",
        figure_18,
    ),
]
