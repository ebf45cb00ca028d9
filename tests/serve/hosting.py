"""Hosts of models for tests that have no event loop of their own."""

import asyncio
import threading

from demur.serve.hosts.host import Host


class RunningHost:
    """A `Host` in an event loop of its own, asked from outside of it."""

    def __init__(self, name, config, store, *, others=None, reviewed=None):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="host", daemon=True).start()
        self.host = self.wait(Host.started(name, config, store, others=others, reviewed=reviewed))

    def wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    @property
    def model(self):
        """The model of its kind itself."""
        return self.host.model.model

    @property
    def panel(self):
        return self.host._panel

    def decide(self, inputs, groups=None, draws=None):
        return self.wait(self.host.decide(inputs, groups, draws))

    def decide_next(self, inputs, groups, step):
        return self.wait(self.host.decide_next(inputs, groups, step))

    def __getattr__(self, name):
        return getattr(self.host, name)
