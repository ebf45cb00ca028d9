"""More patience with the start of Ray than Ray has."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NODE_SECONDS = 180.0
"""How long Ray's own process may take to say that it is there. Ray itself gives up after 30 seconds, and cannot be told
otherwise. That was too short on two processors that some twenty processes wanted."""

LOOK_SECONDS = 0.5


@contextmanager
def patient_start(check: Callable[[], None] = lambda: None, seconds: float = NODE_SECONDS) -> Iterator[None]:
    """Within, `ray.init` waits so long for the node that it starts. `check` is called now and then, and may raise.

    Ray asks again and again, and looks at the clock only after an answer. So the question is made to take longer.
    """
    from ray._private import services  # here, because importing it reads the environment

    ask_once = services.get_node

    def ask(gcs_address: str, node_id: str) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return ask_once(gcs_address, node_id)
            except RuntimeError:  # it is not there yet
                if time.monotonic() >= deadline:
                    raise
            check()
            time.sleep(LOOK_SECONDS)

    services.get_node = ask
    try:
        yield
    finally:
        services.get_node = ask_once
