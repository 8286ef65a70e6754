"""Drive the flow solver (here: a perl stand-in) and collect its residuals."""
import subprocess
import sys

SOLVER = r'''
$| = 1;
for my $step (1 .. 4000) {
    printf "step %6d residual %.9e cfl 0.5 energy %.9e\n", $step, 1 / $step, $step * 1e-3;
}
'''


def run_case(mach):
    p = subprocess.Popen(["perl", "-e", SOLVER, str(mach)],
                         stdout=subprocess.PIPE, text=True)
    if p.wait() != 0:
        sys.exit("solver failed for mach %s" % mach)
    return float(p.stdout.read().splitlines()[-1].split()[3])


def main():
    for mach in (0.3, 0.5, 0.8):
        print("running mach", mach, flush=True)
        print("residual", run_case(mach), flush=True)


main()
