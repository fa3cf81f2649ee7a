"""Bulk TCP flows with cubic, as competing traffic for a job.

python -m lab.tcp_flows receive ADDRESS PORT          prints "TIME BYTES" about every 0.2 s
python -m lab.tcp_flows send ADDRESS PORT FLOWS
"""

import selectors
import socket
import sys
import threading
import time


def receive(address, port):
    selector = selectors.DefaultSelector()
    listener = socket.create_server((address, port))
    selector.register(listener, selectors.EVENT_READ)
    print("listening", flush=True)
    total, told = 0, time.monotonic()
    buffer = bytearray(1 << 18)
    while True:
        for key, _ in selector.select(0.1):
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
            elif count := key.fileobj.recv_into(buffer):
                total += count
            else:
                selector.unregister(key.fileobj)
        if time.monotonic() - told > 0.2:
            told = time.monotonic()
            print(f"{told} {total}", flush=True)


def send(address, port):
    with socket.socket() as flow:
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        flow.connect((address, port))
        data = bytes(1 << 16)
        while True:
            flow.sendall(data)


def main():
    role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if role == "receive":
        receive(address, port)
    for _ in range(int(sys.argv[4])):
        threading.Thread(target=send, args=(address, port)).start()


if __name__ == "__main__":
    main()
