#!/usr/bin/perl
# Runs a converter with open3 and reads its stdout to the end; the converter fills the unread stderr pipe first.
use strict; use warnings; use IPC::Open3; use Symbol 'gensym';
$| = 1;
print "converting\n";
my $err = gensym;
my $pid = open3(my $in, my $out, $err, $^X, '-e', 'for (1..5000) { print STDERR "warning: sample $_ has odd size\n" } print "ok\n"');
close $in;
print "frozen soon\n";
my @lines = <$out>;
my @warn = <$err>;
waitpid $pid, 0;
print scalar(@lines), " ", scalar(@warn), "\n";
