#!/usr/bin/perl
# Reads from a pipe until the end of a child that only sleeps, then reaps it.
use strict; use warnings;
$^F = 255;    # the pipe stays open over exec
pipe(my $r, my $w) or die;
my $pid = fork() // die;
if (!$pid) {
    close $r;
    exec "sleep", $ENV{UNSEEN_SECONDS} // 15;
    die;
}
close $w;
my $rest = <$r>;
waitpid($pid, 0);
exit 1 if $?;
print "alive\n";
