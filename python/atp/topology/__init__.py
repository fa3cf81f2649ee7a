"""Cluster files for the planner from what other programs know about a machine or a network.

    python -m atp.topology topo.txt > mine.yaml      # the same as atp plan import

It reads the output of `nvidia-smi topo -m`, the topology that NCCL dumps, Slurm's topology.conf and
topology.yaml, and ASTRA-sim's networks. It uses the standard library alone, since it is run on
machines that have neither torch nor the rest of this package.
"""
