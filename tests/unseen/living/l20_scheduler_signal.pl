#!/usr/bin/perl
# Batch job that holds itself until the scheduler sends SIGUSR1.
use strict;
use warnings;

my $go = 0;
$SIG{USR1} = sub { $go = 1 };
my $dir = $ENV{UNSEEN_TMP};
open(my $f, '>', "$dir/pid.new") or die;
print $f "$$\n";
close $f;
rename "$dir/pid.new", "$dir/job.pid";
sleep until $go;
print "alive\n";
