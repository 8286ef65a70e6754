// Nightly settlement: moves money between accounts from two worker threads.
public class Ledger {
    static class Account {
        final String id;
        long cents;
        Account(String id, long cents) { this.id = id; this.cents = cents; }
    }

    static void transfer(Account from, Account to, long cents) throws Exception {
        synchronized (from) {
            Thread.sleep(200);              // look up the exchange rate
            synchronized (to) {
                from.cents -= cents;
                to.cents += cents;
            }
        }
    }

    static Thread worker(Account a, Account b, String name) {
        Thread t = new Thread(() -> {
            try {
                for (int i = 0; i < 20; i++) transfer(a, b, 100);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }, name);
        t.start();
        return t;
    }

    public static void main(String[] args) throws Exception {
        Account rent = new Account("rent", 100_000);
        Account salary = new Account("salary", 500_000);
        System.out.println("settling 40 transfers");
        Thread in = worker(salary, rent, "settle-in");
        Thread out = worker(rent, salary, "settle-out");
        in.join();
        out.join();
        System.out.println("settled: " + rent.cents + " " + salary.cents);
    }
}
