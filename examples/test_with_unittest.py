"""The same without pytest: a broker for each test, or one for all that is emptied before each."""

import unittest
from typing import ClassVar

from groupkeeper.testing import Broker


class FreshBroker(unittest.TestCase):
    def setUp(self) -> None:
        self.broker = self.enterContext(Broker(topics={"orders": 1}))

    def test_a_record_is_there(self) -> None:
        self.broker.produce("orders", "first")
        self.assertEqual(len(self.broker.records("orders")), 1)


class SharedBroker(unittest.TestCase):
    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker(topics={"orders": 1}))

    def setUp(self) -> None:
        self.broker.reset()

    def test_a_record_is_there(self) -> None:
        self.broker.produce("orders", "first")
        self.assertEqual(len(self.broker.records("orders")), 1)

    def test_the_broker_was_emptied(self) -> None:
        self.assertEqual(self.broker.records("orders"), [])
