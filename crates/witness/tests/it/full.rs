//! The long form, as a person finds it in `stacks.txt`.

use gpulane_witness::{Descriptors, Evidence, Holder, Python, Wait, in_full};

use crate::by_hand::{process, seen, thread, wait};

#[test]
fn one_section_of_stacks() {
    let mut main = process(10);
    main.descriptors = Descriptors {
        open: 5,
        limit: Some(1024),
        gpus: 1,
        standard: [Some("/dev/null".to_owned()), Some("pipe".to_owned()), None],
        pipes: vec![1, 2],
        sockets: vec![],
    };
    main.threads[0].gil = true;
    let mut other = process(20);
    other.parent = 10;
    other.python = Python::Unreadable("not allowed".to_owned());
    let holder = Some(Holder { pid: Some(77), name: "ninja".to_owned(), others: None });
    let lock = Wait { fd: Some(4), holder, ..wait("flock", Some(false)) };
    let write = Wait { fd: Some(1), on: Some("pipe".to_owned()), ..wait("write", Some(false)) };
    other.threads = vec![thread(20, write, &[]), thread(21, lock, &[])];
    other.threads[0].wchan = Some("pipe_write".to_owned());
    let text = in_full(&seen(vec![main, other]), "first look");
    assert_eq!(
        text,
        r#"==== first look ====

Process 10 (parent 1, sleeping (S)): python train.py
  Python 3.11.7
  5 descriptors of 1024: 2 pipes, 0 sockets, 1 of GPUs; stdin /dev/null; stdout pipe; stderr closed

  Thread 10 "python" (sleeping (S), holds the GIL, 7 switches)
    File "/home/me/train.py", line 40, in <module>
    File "/home/me/train.py", line 12, in step
    waits in futex, without a time limit; for another thread of its process

Process 20 (parent 10, sleeping (S)): python train.py
  Python, but not allowed

  Thread 20 "python" (sleeping (S), 7 switches)
    waits in write on descriptor 1 (pipe), without a time limit
    in the kernel: pipe_write

  Thread 21 "python" (sleeping (S), 7 switches)
    waits in flock on descriptor 4, without a time limit, held by process 77 (ninja)
"#
    );
}

#[test]
fn nothing_left_is_said() {
    assert!(in_full(&Evidence::default(), "after the end").contains("No process is left."));
}
