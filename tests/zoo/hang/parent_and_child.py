"""Parent and child each wait for the other to speak first."""
# verdict: end
# stuck: each other
# at: parent_and_child.py:stuck here

import multiprocessing


def serve(connection):
    connection.recv()
    connection.send("weights")


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,))
    server.start()
    print("asking", flush=True)
    weights = ours.recv()  # stuck here
