// Main joins a thread that takes a retry from a DelayQueue once its delay is over.
import java.util.concurrent.*;

public class DelayedRetry {
    record Retry(long at) implements Delayed {
        public long getDelay(TimeUnit u) {
            return u.convert(at - System.nanoTime(), TimeUnit.NANOSECONDS);
        }
        public int compareTo(Delayed o) {
            return Long.compare(at, ((Retry) o).at);
        }
    }

    public static void main(String[] args) throws Exception {
        String e = System.getenv("UNSEEN_SECONDS");
        double s = e == null ? 15 : Double.parseDouble(e);
        DelayQueue<Retry> q = new DelayQueue<>();
        q.put(new Retry(System.nanoTime() + (long) (s * 1e9)));
        CompletableFuture<Boolean> done = new CompletableFuture<>();
        Thread t = new Thread(() -> {
            try {
                q.take();
                done.complete(true);
            } catch (InterruptedException x) {
                done.complete(false);
            }
        });
        t.start();
        if (!done.get()) System.exit(1);
        t.join();
        System.out.println("alive");
    }
}
