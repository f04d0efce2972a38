"""Sends a record to each partition of some topics, again and again, until its input ends.

A line of input is a topic's name and the numbers of its partitions, with commas between them; `-`
is none. It runs with nothing on the path but confluent-kafka.
"""

import sys
import threading
import time

from confluent_kafka import KafkaException, Producer

PAUSE_S = 0.8
topics = {}


def read():
    for line in sys.stdin:
        name, numbers = line.split()
        topics[name] = [int(each) for each in numbers.split(",") if each != "-"]
    topics.clear()


reader = threading.Thread(target=read, daemon=True)
reader.start()
settings = {"acks": 1, "message.timeout.ms": 30_000, "linger.ms": 5}
producer = Producer({"bootstrap.servers": sys.argv[1], **settings})
while reader.is_alive():
    for name, numbers in list(topics.items()):
        for number in numbers:
            try:
                producer.produce(name, b"x", partition=number)
            except (BufferError, KafkaException):  # a broker is away
                time.sleep(PAUSE_S)
    producer.poll(0)
    time.sleep(PAUSE_S)
