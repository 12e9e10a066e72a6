"""Work in pieces as tasks of Ray, each with the memory and the cores that it will take.

The work is a batch (qsf._qsf.Batch) or what looks like one (qsf.split): it has pieces by number and knows what each takes
(demands), what a machine must be told to do one (errand), and what to do with what comes back (take) or does not (give_up).
"""
import time
from dataclasses import dataclass

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError, TaskCancelledError

LOOK_EVERY = 1.0
# So long a piece waits for a node that is large enough after the last one has gone.
PATIENCE = 60.0
# Whoever stops the work waits so long at most.
STOP_WITHIN = 5.0
FAILED, OUT_OF_SPACE = 1, 5


@dataclass
class Task:
    """A piece under way: its number and name, what it takes, and which try it is."""

    position: int
    name: str
    memory: int
    cores: int
    tries: int = 1
    # Since when no node is large enough.
    stranded: float | None = None


def run(work, do_errand, address, retry, fail_fast):
    """Does all pieces of the work, each by do_errand(errand) on some machine; tells whether it was interrupted."""
    ray.init(address=address, log_to_driver=False, logging_level="warning")
    try:
        return Engine(work, do_errand, retry, fail_fast).run()
    finally:
        ray.shutdown()


class Engine:
    def __init__(self, work, do_errand, retry, fail_fast):
        self.work, self.retry, self.fail_fast = work, retry, fail_fast
        # What fails is tried again below, where it is counted and told.
        self.do_errand = ray.remote(max_retries=0)(do_errand)
        self.tasks = {}
        self.cancelled = False

    def run(self):
        present = nodes()
        cores = max(int(sum(cores for cores, _ in present)), 1)
        for position, name, memory, threads in self.work.demands(cores):
            if self.cancelled:
                break
            task = Task(position, name, memory, threads)
            most = most_cores(task, present)
            if most:
                task.cores = min(threads, most)
                self.start(task)
            else:
                self.has_no_place(task)
        try:
            self.wait()
        except KeyboardInterrupt:
            self.stop()
            return True
        return False

    def start(self, task):
        errand = self.work.errand(task.position, task.cores)
        ref = self.do_errand.options(num_cpus=task.cores, memory=task.memory, name=task.name).remote(errand)
        self.tasks[ref] = task

    def wait(self):
        while self.tasks:
            ready, _ = ray.wait(list(self.tasks), timeout=LOOK_EVERY)
            for ref in ready:
                self.end(ref, self.tasks.pop(ref))
            if not ready:
                self.look_for_stranded()

    def end(self, ref, task):
        try:
            done = self.work.take(task.position, task.tries, ray.get(ref))
        except TaskCancelledError:
            return
        except RayTaskError as error:
            # What the piece itself raised; of a batch, where that goes into the record, it could not even begin.
            self.give_up(task, getattr(error.cause, "exit_code", FAILED), str(error.cause))
        except RayError as error:
            self.lost(task, error)
        else:
            if not done and self.fail_fast:
                self.cancel()

    def lost(self, task, error):
        """The machine, or the process of Ray on it, has gone, and the piece with it."""
        if self.cancelled:
            return
        what = f"lost with its node or worker ({type(error).__name__})"
        if task.tries > self.retry:
            self.give_up(task, OUT_OF_SPACE if isinstance(error, OutOfMemoryError) else FAILED, what)
            return
        self.work.note(f"{task.name}: {what}; trying again")
        task.tries += 1
        self.start(task)

    def give_up(self, task, exit_code, error):
        self.work.give_up(task.position, task.tries, exit_code, error)
        if self.fail_fast:
            self.cancel()

    def has_no_place(self, task):
        largest = max((memory for cores, memory in nodes() if cores >= 1), default=0)
        self.give_up(task, OUT_OF_SPACE, f"it needs about {task.memory / 1e6:.0f} MB of memory, and the largest node with a core "
                     f"has {largest / 1e6:.0f} MB")

    def look_for_stranded(self):
        """Ray waits for ever for a node that is large enough; nobody else does."""
        present = nodes()
        for ref, task in list(self.tasks.items()):
            if most_cores(task, present) >= task.cores:
                task.stranded = None
            elif task.stranded is None:
                task.stranded = time.monotonic()
            elif time.monotonic() - task.stranded > PATIENCE:
                ray.cancel(ref)
                del self.tasks[ref]
                self.has_no_place(task)

    def cancel(self):
        self.cancelled = True
        for ref in self.tasks:
            ray.cancel(ref)

    def stop(self):
        self.cancel()
        ready, _ = ray.wait(list(self.tasks), num_returns=len(self.tasks), timeout=STOP_WITHIN) if self.tasks else ([], [])
        for ref in ready:
            try:
                # It was done before it heard.
                self.work.take(self.tasks[ref].position, self.tasks[ref].tries, ray.get(ref))
            except RayError:
                pass


def nodes():
    """Cores and bytes of memory of each node that is there."""
    alive = (node["Resources"] for node in ray.nodes() if node["Alive"])
    return [(resources.get("CPU", 0), resources.get("memory", 0)) for resources in alive]


def most_cores(task, present):
    """The most cores that a node has whose memory suffices for a piece; 0 where there is none."""
    return int(max((cores for cores, memory in present if memory >= task.memory), default=0))
