<?php // Reserves units on a shared ledger before a call. Needs PHP with curl.
function ask(string $route, array $body): array
{
    $curl = curl_init((getenv('INGESTOR_URL') ?: 'http://127.0.0.1:8080') . '/v1/' . $route);
    curl_setopt_array($curl, [
        CURLOPT_POSTFIELDS => json_encode($body, JSON_THROW_ON_ERROR),
        CURLOPT_HTTPHEADER => ['Authorization: Bearer ' . getenv('INGESTOR_TOKEN'), 'Content-Type: application/json'],
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 30,
    ]);
    $answer = curl_exec($curl);
    if ($answer === false) {
        throw new RuntimeException(curl_error($curl));
    }
    return [curl_getinfo($curl, CURLINFO_RESPONSE_CODE), json_decode($answer, true, 16, JSON_THROW_ON_ERROR)];
}

[$status, $verdict] = ask('reserve', ['method' => $argv[1], 'job' => 'php']);
if ($status !== 200) { // 429 and 503: retry later; 422: change the request
    fwrite(STDERR, "$status: {$verdict['detail']}\n");
    exit(1);
}
echo "make the call: {$verdict['used']} of {$verdict['limit']} are used in {$verdict['window']}\n";
// After the call: ask('settle', ['token' => $verdict['token'], 'units' => 2]) if it cost something else,
// ask('release', ['token' => $verdict['token']]) if it was provably never sent. Otherwise it counts as spent.
