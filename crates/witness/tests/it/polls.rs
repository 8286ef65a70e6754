//! Loops that sleep and ask again: what they ask for is read from their source, and from the files that they have open.

use std::process::Command;

use gpulane_witness::Evidence;

use crate::subject::Subject;
use crate::zoo::is_told;

#[test]
fn a_file_that_does_not_come_is_named_with_its_path() {
    is_told(
        r"
import pathlib, time
def wait_for(marker):
    while True:
        if pathlib.Path(marker).is_file():
            return
        pause()
def pause():
    time.sleep(0.05)
wait_for('/nonexistent/_SUCCESS')
",
        9,
        "sleeping in job.py:9 (pause)",
        "polls for the file /nonexistent/_SUCCESS, which does not come: `while True: … if pathlib.Path(marker).is_file():`",
    );
}

#[test]
fn a_database_that_the_job_itself_keeps_locked_is_named() {
    is_told(
        r"
import sqlite3, tempfile, time
path = tempfile.mkdtemp() + '/trials.db'
sqlite3.connect(path).execute('create table trials (id)').connection.commit()
book = sqlite3.connect(path)
book.execute('insert into trials values (1)')
while True:
    try:
        with sqlite3.connect(path, timeout=0) as other:
            other.execute('insert into trials values (2)')
        break
    except sqlite3.OperationalError:
        time.sleep(0.2)
",
        13,
        "sleeping in job.py:13 (<module>)",
        "trials.db) is locked by this job itself",
    );
}

#[test]
fn what_a_script_of_a_shell_asks_for_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("job.sh");
    let text = "while read -r word; do echo $word; done </dev/null\n\
                until [ -e /nonexistent/ready ]; do sleep 0.2; done\n";
    std::fs::write(&script, text).unwrap();
    let mut command = Command::new("sh");
    command.arg(&script);
    let subject = Subject::of(command, folder);
    let quoted = |evidence: &Evidence| {
        let shell = evidence.process(subject.pid())?.threads.first()?;
        shell.in_loop.as_ref().map(|found| (found.line, found.header.clone()))
    };
    let evidence = subject.until(|evidence, _| quoted(evidence).is_some());
    assert_eq!(quoted(&evidence), Some((2, "until [ -e /nonexistent/ready ]".to_owned())));
}
