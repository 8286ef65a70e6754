//! Programs in C, C++ and other languages that wait at the things the C library and what is built on it have, each by its real functions.

use std::path::Path;
use std::process::{Command, Stdio};

use gpulane_testkit::skip;
use gpulane_witness::{Primitive, Source, Tie};
use tempfile::TempDir;

use crate::subject::Subject;

const C: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <threads.h>
#include <time.h>
static mtx_t mutex; static cnd_t condition; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static sem_t semaphore;
static pthread_cond_t signal = PTHREAD_COND_INITIALIZER; static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int waits(void *of) { (void)of; return sem_wait(&semaphore); }
static void *pwaits(void *of) { waits(of); return 0; }
static void itself(void) { pthread_once(&once, itself); }
int main(int count, char **words) {
    const char *kind = words[count - 1];
    struct timespec late; clock_gettime(CLOCK_REALTIME, &late); late.tv_sec += 3600;
    struct timespec steady; clock_gettime(CLOCK_MONOTONIC, &steady); steady.tv_sec += 3600;
    mtx_init(&mutex, mtx_timed); cnd_init(&condition); sem_init(&semaphore, 0, 0);
    mtx_lock(&mutex); pthread_mutex_lock(&lock);
    thrd_t thread; pthread_t other;
#define IS(name) else if (strcmp(kind, name) == 0)
    if (0) {}
    IS("cnd_wait") cnd_wait(&condition, &mutex);
    IS("cnd_timedwait") cnd_timedwait(&condition, &mutex, &late);
    IS("mtx_lock") mtx_lock(&mutex);
    IS("mtx_timedlock") mtx_timedlock(&mutex, &late);
    IS("thrd_join") { thrd_create(&thread, waits, 0); thrd_join(thread, 0); }
    IS("pthread_join") { pthread_create(&other, 0, pwaits, 0); pthread_join(other, 0); }
    IS("pthread_mutex_lock") pthread_mutex_lock(&lock);
    IS("pthread_mutex_timedlock") pthread_mutex_timedlock(&lock, &late);
    IS("pthread_cond_timedwait") pthread_cond_timedwait(&signal, &lock, &late);
    IS("pthread_once") pthread_once(&once, itself);
    IS("pthread_rwlock_rdlock") { pthread_rwlock_wrlock(&both); pthread_create(&other, 0, (void *(*)(void *))pthread_rwlock_rdlock, &both); pthread_join(other, 0); }
    IS("pthread_rwlock_timedwrlock") { pthread_rwlock_rdlock(&both); pthread_rwlock_timedwrlock(&both, &late); }
    IS("sem_timedwait") sem_timedwait(&semaphore, &late);
    IS("sem_wait") sem_wait(&semaphore);
    return 0;
}
"#;

const CPP: &str = r#"
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <string>
static std::once_flag once;
static void itself() { std::call_once(once, itself); }
int main(int count, char **words) {
    std::string kind = words[count - 1];
    std::promise<int> promise; std::mutex mutex; std::condition_variable condition; std::latch latch(1);
    if (kind == "future") return promise.get_future().get();
    if (kind == "call_once") itself();
    if (kind == "latch") latch.wait();
    if (kind == "mutex") { mutex.lock(); mutex.lock(); }
    if (kind == "condition") { std::unique_lock<std::mutex> own(mutex); condition.wait(own); }
}
"#;

const OPENMP: &str = r"
#include <omp.h>
#include <semaphore.h>
int main(void) {
    sem_t semaphore; sem_init(&semaphore, 0, 0);
#pragma omp parallel num_threads(2)
    { if (omp_get_thread_num() == 1) sem_wait(&semaphore); }
    return 0;
}
";

/// Compiles it to `program` in a folder; `None`, with the reason told, where that cannot be done here.
fn compiled(test: &str, compiler: &[&str], name: &str, text: &str) -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), text).unwrap();
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args([name, "-o", "program", "-pthread"]).current_dir(folder.path());
    match command.output() {
        Ok(output) if output.status.success() => return Some(folder),
        Ok(output) => skip(test, &format!("{compiler:?}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => skip(test, &format!("{}: {error}", compiler[0])),
    }
    None
}

/// Runs it once for each kind, all at the same time, until each is seen to wait at what it should.
fn wait_at(program: &Path, kinds: &[(&str, Primitive)]) {
    let start = |kind: &str| {
        let mut command = Command::new(program);
        command.arg(kind).env("OMP_WAIT_POLICY", "passive");
        Subject::of(command, tempfile::tempdir().unwrap())
    };
    let subjects: Vec<Subject> = kinds.iter().map(|(kind, _)| start(kind)).collect();
    for (subject, (_, at)) in subjects.iter().zip(kinds) {
        waits_at(subject, *at);
    }
}

fn waits_at(subject: &Subject, at: Primitive) {
    subject.until(|evidence, _| {
        let threads = evidence.processes.iter().flat_map(|process| &process.threads);
        // The thread that is joined is known by its record, and the function then need not be.
        let joined = |source: &Source| matches!(source, Source::Thread { tie: Tie::Joined, .. });
        let mut waits = threads.filter_map(|thread| thread.wait.as_ref());
        waits.any(|wait| wait.at == Some(at) || at == Primitive::Join && wait.sources.iter().any(joined))
    });
}

#[test]
fn what_the_c_library_has() {
    let Some(folder) = compiled("what_the_c_library_has", &["cc", "-std=c11", "-D_GNU_SOURCE"], "waits.c", C)
    else {
        return;
    };
    wait_at(
        &folder.path().join("program"),
        &[
            ("cnd_wait", Primitive::Condition),
            ("cnd_timedwait", Primitive::Condition),
            ("mtx_lock", Primitive::Mutex),
            ("mtx_timedlock", Primitive::Mutex),
            ("thrd_join", Primitive::Join),
            ("pthread_join", Primitive::Join),
            ("pthread_mutex_lock", Primitive::Mutex),
            ("pthread_mutex_timedlock", Primitive::Mutex),
            ("pthread_cond_timedwait", Primitive::Condition),
            ("pthread_once", Primitive::Once),
            ("pthread_rwlock_rdlock", Primitive::ReadWriteLock),
            ("pthread_rwlock_timedwrlock", Primitive::ReadWriteLock),
            ("sem_timedwait", Primitive::Semaphore),
            ("sem_wait", Primitive::Semaphore),
        ],
    );
}

#[test]
fn what_c_plus_plus_has() {
    let Some(folder) = compiled("what_c_plus_plus_has", &["c++", "-std=c++20"], "waits.cpp", CPP) else {
        return;
    };
    wait_at(
        &folder.path().join("program"),
        &[
            ("future", Primitive::Future),
            ("call_once", Primitive::Once),
            ("latch", Primitive::Word),
            ("mutex", Primitive::Mutex),
            ("condition", Primitive::Condition),
        ],
    );
}

#[test]
fn a_parallel_region_of_openmp_that_one_thread_does_not_leave() {
    let test = "a_parallel_region_of_openmp_that_one_thread_does_not_leave";
    let Some(folder) = compiled(test, &["cc", "-fopenmp"], "waits.c", OPENMP) else { return };
    wait_at(&folder.path().join("program"), &[("", Primitive::OpenMp)]);
}

#[test]
fn atomics_of_javascript() {
    let mut command = Command::new("node");
    command.args(["-e", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"]);
    let asked = Command::new("node").arg("--version").stdout(Stdio::null()).status();
    if !asked.is_ok_and(|status| status.success()) {
        return skip("atomics_of_javascript", "needs node");
    }
    waits_at(&Subject::of(command, tempfile::tempdir().unwrap()), Primitive::Atomics);
}

#[test]
fn a_latch_of_java() {
    let folder = tempfile::tempdir().unwrap();
    let text = "class Waits { public static void main(String[] words) throws Exception { \
                new java.util.concurrent.CountDownLatch(1).await(); } }";
    std::fs::write(folder.path().join("Waits.java"), text).unwrap();
    let made = Command::new("javac").arg("Waits.java").current_dir(folder.path()).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("a_latch_of_java", "needs javac");
    }
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-Xshare:auto", "Waits"]).current_dir(folder.path());
    waits_at(&Subject::of(command, folder), Primitive::Java);
}
