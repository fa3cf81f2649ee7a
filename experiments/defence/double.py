"""A service that defends itself against nothing: the experiment must notice what it does.

double.py ADDRESS PORT     answers each datagram three times, and keeps and logs each connection
"""

import socket
import sys
import threading


def main(address, port):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, port))
    listener, kept = socket.create_server((address, port), backlog=1000), []

    def answer():
        while True:
            asked, whom = udp.recvfrom(65536)
            for _ in range(3):
                udp.sendto(asked, whom)

    threading.Thread(target=answer, daemon=True).start()
    print("listening on", address, flush=True)
    while True:
        kept.append(listener.accept()[0])
        print(
            "a connection, which is kept for ever, has been accepted from a stranger " * 5,
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
