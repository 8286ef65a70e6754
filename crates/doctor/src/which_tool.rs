//! Which tool for which case: when gpulane is the right one, and what to use otherwise. `docs/which-tool.md` says the
//! same at more length.

use crate::Finding;

/// Each case as a finding: the case, why, and what to type.
pub fn which_tool() -> Vec<Finding> {
    vec![
        case("many models, one machine", "many independent trainings or evaluations on this machine: gpulane")
            .because("a process each, a GPU each or a share of one, no waiting for the slowest, nothing left behind")
            .then("gpulane run -s lr=1e-3,1e-4 -s 'seed=range(3)' -- python3 train.py --lr {lr} --seed {seed}")
            .then("gpulane init    # a plan, for more than one stage"),
        case("one model, many GPUs", "one model too large or too slow for one GPU: torchrun (DDP, FSDP), DeepSpeed")
            .because("only the framework can split a model; if there are several such runs, each is a gpulane job")
            .then("torchrun --standalone --nproc-per-node 4 train.py")
            .then("gpulane run --job-gpus 4 -s 'seed=range(3)' -- torchrun --standalone --nproc-per-node 4 train.py"),
        case("many models, a cluster", "several machines with a scheduler: Slurm and its job arrays")
            .because("it decides who gets which node; gpulane inside an allocation fills the GPUs it was given")
            .then("sbatch --gpus 8 --wrap 'gpulane run plan.toml'"),
        case("processes that must talk", "jobs that exchange data while they run (IPC, queues, actors): Ray, Dask")
            .because("gpulane's jobs are strangers to each other: that is why one cannot hang another; pass files instead")
            .then("in a plan: foreach = \"train\", then read $GPULANE_INPUT"),
        case("threads", "GPU work in threads of one program: do not; start processes instead")
            .because(
                "one interpreter, one GIL, and libraries that are not thread-safe: the usual end is a deadlock at GPU 0%",
            )
            .then("gpulane run -s 'part=range(8)' -- python3 evaluate.py --part {part}"),
        case("fork", "multiprocessing with GPUs: start method spawn, never fork after CUDA was used")
            .because("a CUDA context does not survive a fork: the child waits for a lock that nobody holds")
            .then("multiprocessing.set_start_method(\"spawn\")"),
        case("the next point from the last results", "a search that learns while it runs: Optuna, Ray Tune")
            .because("gpulane runs what the plan says; it does not choose")
            .then("study.optimize(objective, n_trials=100)"),
    ]
}

fn case(topic: &'static str, seen: &str) -> Finding {
    Finding::fine(topic, seen)
}
