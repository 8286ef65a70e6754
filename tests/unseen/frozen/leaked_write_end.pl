#!/usr/bin/perl
# The second worker has inherited the write end of the first one's pipe, so the first never sees end of file.
use strict;
use warnings;
$| = 1;
my (@to, @pid);
for my $n (0 .. 1) {
    pipe(my $r, my $w) or die;
    my $pid = fork();
    die unless defined $pid;
    if (!$pid) {
        close $w;
        my $words = 0;
        while (my $line = <$r>) { $words += () = $line =~ /\w+/g }
        exit 0;
    }
    close $r;
    push @to, $w;
    push @pid, $pid;
}
for my $i (1 .. 2000) { print { $to[$i % 2] } "record $i with some words\n" }
print "2000 records handed out\n";
for my $n (0 .. 1) {
    close $to[$n];
    waitpid($pid[$n], 0);
    print "worker $n done\n";
}
