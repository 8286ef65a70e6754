// Closes a reporting window: the main thread waits on a latch that a scheduled task counts down.
import java.util.concurrent.*;

public class Window {
    public static void main(String[] args) throws Exception {
        String s = System.getenv("UNSEEN_SECONDS");
        long ms = (long) (1000 * Double.parseDouble(s == null ? "15" : s));

        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        CountDownLatch closed = new CountDownLatch(1);
        ConcurrentLinkedQueue<String> events = new ConcurrentLinkedQueue<>();
        events.add("opened");
        clock.schedule(() -> {
            events.add("closed");
            closed.countDown();
        }, ms, TimeUnit.MILLISECONDS);

        closed.await();
        clock.shutdown();
        if (events.size() != 2) System.exit(1);
        System.out.println("alive");
    }
}
