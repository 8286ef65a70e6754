#!/usr/bin/perl
# Appends today's numbers to a report shared with the other nightly jobs.
use strict;
use warnings;
use Fcntl qw(:flock SEEK_END);

my $tmp  = $ENV{UNSEEN_TMP} || '/tmp';
my $file = "$tmp/report.csv";
select(undef, undef, undef, 0.05) until -e "$tmp/report.ready";

sub numbers {
    my %n = (jobs => 12, failed => 1, minutes => 348);
    return map { "$_,$n{$_}" } sort keys %n;
}

open(my $fh, '>>', $file) or die "cannot open $file: $!";
print "writing report\n";
flock($fh, LOCK_EX) or die "cannot lock $file: $!";
seek($fh, 0, SEEK_END);
print $fh "$_\n" for numbers();
flock($fh, LOCK_UN);
close($fh);
print "report written\n";
