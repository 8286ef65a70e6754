#!/usr/bin/perl
# classic alarm + blocking read on a pipe nobody writes to
use strict; use warnings;
$| = 1;
my $s = int($ENV{UNSEEN_SECONDS} // 15) || 1;
pipe(my $r, my $w) or die;
print "waiting for a word from the operator\n";
my $line = eval {
    local $SIG{ALRM} = sub { die "timeout\n" };
    alarm $s;
    my $l; sysread($r, $l, 100);
    alarm 0;
    $l;
};
print $@ eq "timeout\n" ? "alive\n" : "odd: $@\n";
