//! The view on a terminal: frames as they would stand there.

mod scene;

use gpulane_model::{Attempt, Event, LaneId};
use gpulane_report::{End, Look, Mode, Size};
use scene::vt::Terminal;
use scene::{Scene, at, plan};

const LOOK: Look = Look { color: false, unicode: true, size: Size::Fixed(80, 24) };

fn sweep() -> Scene {
    Scene::new(plan(&[
        ("train", &["lr=0.1", "lr=0.2", "lr=0.3", "lr=0.4", "lr=0.5", "lr=0.6"]),
        ("eval", &["all"]),
    ]))
}

#[test]
fn bars_at_the_bottom_and_output_above() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Tty, LOOK);
    let mut terminal = Terminal::new(80);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0).job_started(0, "train/lr=0.2", 1, 1);
    scene.says("train/lr=0.1", 1, "stdout", b"epoch 1\n");
    scene.says("train/lr=0.2", 1, "stderr", b"\r 10%|#   |\r 50%|##  |");
    live.tick(None, at(2000)).unwrap();
    terminal.feed(&err.take());
    let expected = "\
ablation: 7 jobs (train 6, eval 1) on 2 simulated GPUs, in RUN
train/lr=0.1 │ epoch 1
ablation ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  0/7 · 2 s
gpu 0  train/lr=0.1      2 s
gpu 1  train/lr=0.2      2 s  50%|##  |";
    // The first line holds a temporary path, long enough to wrap.
    let screen = terminal.text();
    let (path, output) = (screen.find(", in ").unwrap() + 5, screen.find("\ntrain/").unwrap());
    assert_eq!(format!("{}RUN{}", &screen[..path], &screen[output..]), expected);

    scene.job_succeeded(4000, "train/lr=0.1", 4.0).job_failed(4000, "train/lr=0.2", 1, 1, 4.0);
    scene.job_started(4000, "train/lr=0.3", 1, 0).job_succeeded(8000, "train/lr=0.3", 4.0);
    scene.job_started(8000, "train/lr=0.4", 2, 0);
    live.tick(None, at(9000)).unwrap();
    terminal.feed(&err.take());
    let screen = terminal.text();
    let frame: Vec<&str> = screen.lines().rev().take(3).collect();
    assert_eq!(
        frame,
        [
            "gpu 1  idle",
            "gpu 0  train/lr=0.4      1 s  try 2",
            "ablation ━━━━━××╌╌╌╌╌╌╌╌╌╌╌╌  3/7 · 1 failed · 20.0/min · 9 s · about 10 s left",
        ]
    );

    live.finish(&End::Interrupted, at(9100)).unwrap();
    terminal.feed(&err.take());
    let screen = terminal.text();
    assert!(!screen.contains("idle"), "the frame is gone: {screen}");
    assert!(screen.contains("! Interrupted after"), "{screen}");
}

#[test]
fn frames_replace_each_other_whatever_happens_above() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Tty, LOOK);
    let mut terminal = Terminal::new(80);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0).job_started(0, "train/lr=0.2", 1, 1);
    for tick in 0..100_u64 {
        if tick % 3 == 0 {
            let long = "x".repeat(usize::try_from(tick).unwrap() * 3);
            scene.says("train/lr=0.1", 1, "stdout", format!("{tick} {long}\n").as_bytes());
        }
        if tick % 10 == 5 {
            live.note("a note");
            scene
                .event(tick * 60, Event::ProcessesLeft { job: "train/lr=0.1".into(), count: 1, who: vec![] });
        }
        live.tick(None, at(tick * 35)).unwrap();
        terminal.feed(&err.take());
        let screen = terminal.text();
        let bars = screen.lines().filter(|line| line.starts_with("ablation ╌")).count();
        assert_eq!(bars, 1, "tick {tick}: {screen}");
        assert!(screen.lines().last().unwrap().starts_with("gpu 1"), "{screen}");
    }
    live.tick(None, at(9000)).unwrap();
    terminal.feed(&err.take());
    let screen = terminal.text();
    assert_eq!(screen.lines().filter(|line| line.starts_with("train/lr=0.1 │")).count(), 34);
    assert_eq!(screen.lines().filter(|line| *line == "a note").count(), 10);
    drop(live);
    terminal.feed(&err.take());
    assert!(!terminal.text().contains('╌'), "a dropped view takes its frame away");
}

#[test]
fn no_more_than_twenty_frames_a_second_and_none_without_change() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Tty, LOOK);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    let mut frames = 0;
    for tick in 0..100 {
        scene.says("train/lr=0.1", 1, "stdout", b"line\n");
        live.tick(None, at(tick * 10)).unwrap();
        frames += usize::from(!err.take().is_empty());
    }
    assert_eq!(frames, 20);
    live.tick(None, at(1500)).unwrap();
    err.take();
    live.tick(None, at(1600)).unwrap();
    assert_eq!(err.take(), "", "same second, same frame, no write");
}

#[test]
fn many_lanes_take_half_of_the_terminal() {
    let names: Vec<String> = (0..64).map(|n| format!("n={n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scene = Scene::new(plan(&[("many", &names)]));
    let (mut live, _, err) = scene.live(Mode::Tty, LOOK);
    scene.started(64);
    for (lane, name) in names.iter().enumerate() {
        scene.job_started(0, &format!("many/{name}"), 1, u32::try_from(lane).unwrap());
    }
    scene.job_succeeded(10, "many/n=2", 0.1);
    live.tick(None, at(1000)).unwrap();
    let mut terminal = Terminal::new(80);
    terminal.feed(&err.take());
    let screen = terminal.text();
    let frame: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("ablation ╌")).collect();
    assert_eq!(frame.len(), 12);
    assert!(!screen.contains("gpu 2 "), "busy lanes come first");
    assert_eq!(frame[11], "+ 54 more lanes, 53 busy");
}

#[test]
fn a_job_on_several_gpus_has_one_line() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Tty, LOOK);
    scene.started(4);
    for lane in 0..3 {
        let job = format!("train/lr=0.{}", lane + 1);
        scene.job_started(0, &job, 1, lane).job_succeeded(10, &job, 0.01);
    }
    let gpus = (0..4).map(|gpu| format!("GPU-sim-{gpu}")).collect();
    let (job, attempt, lane) = ("eval/all".to_owned(), Attempt(1), LaneId(0));
    scene.event(20, Event::JobStarted { job, attempt, lane, gpus, pid: 1, warm: false });
    live.tick(None, at(1020)).unwrap();
    let mut terminal = Terminal::new(80);
    terminal.feed(&err.take());
    assert_eq!(terminal.text().lines().last(), Some("gpu 0-3  eval/all          1 s"));
    assert!(!terminal.text().contains("idle"));
}

#[test]
fn colours_are_always_closed() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Tty, Look { color: true, ..LOOK });
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0).job_failed(10, "train/lr=0.1", 1, 1, 0.01);
    scene.says("train/lr=0.1", 1, "stderr", b"\x1b[31mred and never closed\n\x1b[2J\x1b[Hcleared\n");
    live.tick(None, at(100)).unwrap();
    let text = err.take();
    for line in text.lines() {
        let last_open = line.rmatch_indices("\x1b[").find(|(at, _)| line[*at..].contains('m'));
        if let Some((at, _)) = last_open {
            let closes =
                ["\x1b[0m", "\x1b[K", "\x1b[J", "\x1b[?"].iter().any(|code| line[at..].starts_with(code));
            assert!(closes, "{line:?}");
        }
    }
    assert!(!text.contains("\x1b[2J") && !text.contains("\x1b[H"), "{text:?}");
}

#[test]
fn jobs_that_run_side_by_side_differ_in_name_and_colour() {
    let names: Vec<String> =
        (0..12).map(|n| format!("learning_rate=0.{n},model=resnet50_pretrained_imagenet")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scene = Scene::new(plan(&[("run", &names)]));
    let (mut live, _, err) = scene.live(Mode::Tty, Look { color: true, size: Size::Fixed(120, 40), ..LOOK });
    scene.started(12);
    for (lane, name) in (0..).zip(&names) {
        // Every other lane, as jobs of two GPUs have it.
        scene.job_started(0, &format!("run/{name}"), 1, lane % 6 * 2 + lane / 6);
    }
    live.tick(None, at(1000)).unwrap();
    let text = err.take();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("gpu ")).collect();
    let colors: Vec<&str> = rows.iter().filter_map(|row| row.split('\x1b').nth(3)).collect();
    assert_eq!((rows.len(), colors.len()), (12, 12), "{text}");
    for n in 0..12 {
        assert!(text.contains(&format!("run/learning_rate=0.{n},…")), "{text}");
    }
    assert!(colors.windows(2).all(|pair| pair[0][..4] != pair[1][..4]), "{colors:?}");
}
